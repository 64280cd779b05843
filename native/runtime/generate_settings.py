"""Writes settings_struct.h and settings_table.h from warpsight/recorder/options/table.py: generate_settings.py OPTIONS.py FOLDER.

The first declares struct Settings; the second reads it from the environment and writes it as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

GENERATED = "// Generated from warpsight/recorder/options/table.py by generate_settings.py; do not edit.\n"


def load(path: Path) -> ModuleType:
    """Import the table from its source tree: nothing is installed while building, and nothing else is needed."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(path.resolve().parents[3]))
    return importlib.import_module("warpsight.recorder.options.table")


class Member:
    """One member of Settings: how it is declared, read and written."""

    def __init__(self, row: Any, table: ModuleType) -> None:
        self.row, self.table = row, table
        self.enumeration = row.type == table.CHOICE and bool(row.native_type)
        self.switch = row.type == table.SWITCH or (row.type == table.CHOICE and not row.native_type)

    def declaration(self) -> str:
        """`int stack_depth = 128;  // WARPSIGHT_STACK_DEPTH`."""
        row = self.row
        if self.enumeration:
            kind, value = row.native_type, f" = {row.native_type}::{enumerator(row.default)}"
        elif self.switch:
            kind, value = "bool", f" = {'true' if row.default in (True, self.on()) else 'false'}"
        elif row.type == self.table.TEXTS:
            kind, value = "std::vector<std::string>", ""
        elif row.type == self.table.TEXT:
            kind, value = "std::string", f" = {json.dumps(row.default)}" if row.default else ""
        else:
            kind, value = row.native_type, f" = {row.default}"
        return f"  {kind} {row.native}{value};  // {row.environment}\n"

    def on(self) -> str:
        """The word of a choice that is true in C++: `on`, else the one that is not the default."""
        if set(self.row.choices) == {"on", "off"}:
            return "on"
        return next((choice for choice in self.row.choices if choice != self.row.default), "")

    def reading(self) -> str:
        """The statement that reads the variable."""
        row, target = self.row, f"&s->{self.row.native}"
        name = json.dumps(row.environment)
        if self.enumeration:
            return f"  read_choice({name}, {self.array()}, {target});\n"
        if row.type == self.table.CHOICE and self.on() != "on":
            pairs = ", ".join(
                f"{{{json.dumps(c)}, {'true' if c == self.on() else 'false'}}}" for c in row.choices
            )
            return f"  static constexpr std::pair<const char*, bool> {self.array()}[] = {{{pairs}}};\n" \
                   f"  read_choice({name}, {self.array()}, {target});\n"  # fmt: skip
        if self.switch:
            return f"  read_choice({name}, kSwitch, {target});\n"
        if row.type == self.table.TEXTS:
            return f"  read_texts({name}, {json.dumps(row.separators)}, {target});\n"
        if row.type == self.table.TEXT:
            return f"  read_text({name}, {target});\n"
        least, most = (int(bound) for bound in row.bounds)
        return f"  read_number({name}, {least}u, {most}u, {target});\n"

    def json(self) -> str:
        """The statement that adds the value to a JSON object."""
        row, value = self.row, f"s.{self.row.native}"
        if self.enumeration:
            value = f"json_string(choice_name({self.array()}, {value}))"
        elif row.type == self.table.CHOICE and self.on() != "on":
            words = f"{value} ? {json.dumps(self.on())} : {json.dumps(row.default)}"
            value = f"json_string({words})"
        elif self.switch:
            value = f'std::string({value} ? "true" : "false")'
        elif row.type == self.table.TEXTS:
            value = f"json_list({value})"
        elif row.type == self.table.TEXT:
            value = f"json_string({value})"
        else:
            value = f"std::to_string({value})"
        return f"  add(&out, {json.dumps(row.key)}, {value});\n"

    def array(self) -> str:
        """kStacks for `stacks`."""
        return "k" + "".join(word.capitalize() for word in self.row.native.split("_"))

    def words(self) -> str:
        """The array of an enumeration's words."""
        kind = self.row.native_type
        pairs = ", ".join(f"{{{json.dumps(c)}, {kind}::{enumerator(c)}}}" for c in self.row.choices)
        return f"constexpr std::pair<const char*, {kind}> {self.array()}[] = {{{pairs}}};\n"


def enumerator(word: str) -> str:
    """`drop-newest` as drop_newest; `auto`, which is a keyword, as automatic."""
    return "automatic" if word == "auto" else word.replace("-", "_")


def main() -> None:
    table = load(Path(sys.argv[1]))
    folder = Path(sys.argv[2])
    members = [Member(row, table) for row in (*table.OPTIONS, *table.VARIABLES) if row.native]
    recorded = [one for one in members if one.row.scope == table.RECORDING]
    (folder / "settings_struct.h").write_text(
        f"{GENERATED}#pragma once\nnamespace warpsight {{\n\nstruct Settings {{\n"
        + "".join(one.declaration() for one in members)
        + "};\n\n}  // namespace warpsight\n"
    )
    (folder / "settings_table.h").write_text(
        f"{GENERATED}// Included by runtime/settings.cpp alone, inside of its namespace.\n"
        + "".join(one.words() for one in members if one.enumeration)
        + "\nvoid read_members(Settings* s) {\n"
        + "".join(one.reading() for one in members)
        + "}\n\nstd::string members_json(const Settings& s) {\n  std::string out;\n"
        + "".join(one.json() for one in recorded)
        + '  return "{" + out + "}";\n}\n'
    )


if __name__ == "__main__":
    main()
