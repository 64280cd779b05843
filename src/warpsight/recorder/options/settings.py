"""The settings of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

from warpsight.errors import UsageError
from warpsight.recorder.options import table as options
from warpsight.recorder.options import values as option_values
from warpsight.recorder.options.table import BOTH, PROCESS, Option
from warpsight.recorder.options.types import RecordingValues

_ROWS = options.of_scope(options.RECORDING)


@dataclass(frozen=True)
class Settings(RecordingValues):
    """The options of a recording that depend on each other."""

    def __post_init__(self) -> None:
        """Refuse values that the recorder cannot use, or that contradict each other.

        Raises:
            UsageError: for an invalid value; the message names the option and what it accepts.
        """
        for option in _ROWS:
            value = option_values.checked(option, getattr(self, option.name))
            object.__setattr__(self, option.name, value)
        self._check_backend()
        if self.log_stacks != "dedup" and not self.kernel_log:
            raise UsageError(
                f"--log-stacks {self.log_stacks} is for a kernel log: give --kernel-log FILE too"
            )
        if self.ring and self.kernel_log:
            raise UsageError(
                "--ring does not go with --kernel-log: a ring converts nothing until it is triggered"
            )
        if not self.ring and (self.after or self.triggers):
            raise UsageError("--after and --trigger belong to a ring: give --ring 30s too")
        self._check_counters()

    def _check_counters(self) -> None:
        """Refuse combinations that CUPTI cannot count at the same time."""
        if not self.metrics and (self.metrics_every or self.metrics_per != "kernel" or self.metrics_passes):
            raise UsageError(
                "--metrics-per, --metrics-every and --metrics-passes are for metrics: give --metrics NAMES too"
            )
        if self.metrics_every and self.metrics_passes:
            raise UsageError("--metrics-every samples in one pass: leave --metrics-passes out")
        if self.metrics_every and self.metrics_per != "kernel":
            raise UsageError(
                "--metrics-every samples whole GPUs, --metrics-per range measures ranges: give one of them"
            )
        counts = "" if self.sass_counts == "off" else "--sass-counts"
        metrics = "--metrics" if self.metrics else ""
        samples = "--pc-sampling" if self.pc_sampling else ""
        given = [flag for flag in (counts, metrics, samples) if flag]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} need the same GPU counters: give one at a time")

    def _check_backend(self) -> None:
        """Refuse options that the backend's recorder would ignore."""
        if self.capture_range != "off" and self.leave_cupti:
            raise UsageError(
                f"--capture-range {self.capture_range} is the CUDA recorder's: it does not go with --yield"
            )
        for option in _ROWS:
            value = getattr(self, option.name)
            if value == option.default or acts_on(self.backend, option):
                continue
            flag = option.flag if value is True else f"{option.flag} {value}"
            raise UsageError(f"{flag} is {_owner(option)}: it does not go with --backend {self.backend}")

    def to_json(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Settings:
        """The inverse of :meth:`to_json`; unknown settings are left out."""
        return cls.of({option.name: content[option.name] for option in _ROWS if option.name in content})

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Settings from keyword arguments, as accepted by `ws.record`.

        Raises:
            UsageError: for an unknown option, or a value that it does not accept.
        """
        return cls(**keyword_values(given, options.RECORDING))

    def variables(self) -> dict[str, str]:
        """The variable of every option read by a recorded process; an empty one counts as absent."""
        out = {option.environment: self._sent(option) for option in _ROWS if option.reader in (PROCESS, BOTH)}
        out["WARPSIGHT_RING"] = "1" if self.ring else ""
        return out

    def _sent(self, option: Option) -> str:
        value = getattr(self, option.name)
        if option.name == "graph" and value == "auto" and self.kernel_log:
            return "node"  # a kernel log has the kernels inside graphs
        if isinstance(value, bool):
            return "1" if value else ""
        if isinstance(value, tuple):
            return option.separators[0].join(value)
        return str(value)

    def launcher_variables(self) -> dict[str, str]:
        """Variables of options used only by the launcher that differ from the default: for `--print-env`."""
        if not self.kernel_log:
            return {}
        return {"WARPSIGHT_KERNEL_LOG": self.kernel_log, "WARPSIGHT_LOG_STACKS": self.log_stacks}


def keyword_values(given: Mapping[str, Any], *scopes: str) -> dict[str, Any]:
    """Checked values of keyword arguments that options of these scopes have.

    Raises:
        UsageError: for an unknown option, or a value that it does not accept.
    """
    known = {option.name: option for option in options.of_scope(*scopes)}
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UsageError(f"there is no option {name}; {hint}options: {', '.join(sorted(known))}")
    return {name: option_values.of_value(known[name], value) for name, value in given.items()}


def acts_on(backend: str, option: Option) -> bool:
    """Whether the recorder chosen by `--backend` supports an option."""
    if backend == "auto" or not option.backends or backend in option.backends:
        return True
    from warpsight.machine.backends import registry

    return any(one.name == backend for one in registry.acting_on(option.name))


def _owner(option: Option) -> str:
    from warpsight.machine.backends import registry

    backends = [*(registry.CORE[name] for name in option.backends), *registry.acting_on(option.name)]
    apis = [one.api for one in backends]
    return f"the {apis[0]} recorder's" if len(apis) == 1 else f"for the recorders of {' and '.join(apis)}"
