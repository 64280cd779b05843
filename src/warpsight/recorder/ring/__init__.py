"""The flight recorder: the last seconds of everything in bounded memory and disk, written out on a trigger."""
