"""warpsight: records GPU programs and answers from the recording."""

from warpsight._version import __version__ as __version__
