"""Formats that are folders, with one of their files cut: an error that names a file, or what can be read; files: test_damage."""

import shutil
import sqlite3

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from tests.unit.formats import rocprof_files, xplane_file
from tests.unit.formats.test_damage import ALL, GOLDEN, _without_folders, check  # noqa: F401  (used by every test)

#: Cuts of a folder's files in all, and of how many files: at their ends, and between.
CUTS, FILES = (4_000, 100) if ALL else (12, 5)


def _msprof(folder, name):
    inside = folder / "PROF_000001/mindstudio_profiler_output"
    inside.mkdir(parents=True)
    shutil.copy(GOLDEN / "msprof" / name, inside / name)


def _nsys(folder, suffix):
    with sqlite3.connect(GOLDEN / "nsys/every_table.sqlite") as file:
        tables = [row[0] for row in file.execute("select name from sqlite_master where type = 'table'")]
        for table in tables:
            rows = file.execute(f'select * from "{table}"')
            names = [column[0] for column in rows.description]
            listed = rows.fetchall()
            data = pa.table({name: [row[i] for row in listed] for i, name in enumerate(names)})
            if suffix == ".parquet":
                pa.parquet.write_table(data, folder / f"{table}{suffix}")
            else:
                pa.feather.write_feather(data, folder / f"{table}{suffix}", compression="uncompressed")


def _xplane(folder, hosts):
    inside = folder / "plugins/profile/2026_01_01"
    inside.mkdir(parents=True)
    for host in hosts:
        data = xplane_file.text(1, xplane_file.GPU) + xplane_file.text(1, xplane_file.HOST)
        (inside / f"{host}.xplane.pb").write_bytes(data + xplane_file.text(4, host))


def _rocprof(folder, name):
    if name.endswith(".db"):
        rocprof_files.write_rocpd(folder / name, "3.0.3")
    elif name.endswith(".json"):
        shutil.copy(GOLDEN / "rocprof/excerpt_results.json", folder / name)
    else:
        (folder / name).write_text(
            '"Kind","Agent_Id","Queue_Id","Thread_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
            + "".join(
                f'"KERNEL_DISPATCH",4,1,78,"add<float, {n}>",{n},{n * 10},{n * 10 + 5}\n' for n in range(50)
            )
        )


def _files(folder):
    """Some of the files inside, the largest among them."""
    found = sorted(
        (path for path in folder.rglob("*") if path.is_file()), key=lambda path: -path.stat().st_size
    )
    return found[:1] + found[1 :: max(1, len(found) // FILES)][: FILES - 1]


FOLDERS = {
    "msprof JSON": ("msprof", _msprof, "trace_view.json"),
    "msprof CSV": ("msprof", _msprof, "op_summary_0.csv"),
    "msprof database": ("msprof", _msprof, "msprof_1.db"),
    "nsys Parquet": ("nsys", _nsys, ".parquet"),
    "nsys Arrow": ("nsys", _nsys, ".arrow"),
    "xplane": ("xplane", _xplane, ("a", "b")),
    "rocprof JSON": ("rocprof", _rocprof, "77_results.json"),
    "rocprof rocpd": ("rocprof", _rocprof, "77_results.db"),
    "rocprof CSV": ("rocprof", _rocprof, "77_kernel_trace.csv"),
}


@pytest.fixture
def folder(request, tmp_path):
    form, make, what = FOLDERS[request.param]
    made = tmp_path / "run"
    made.mkdir()
    make(made, what)
    return form, made


@pytest.mark.parametrize("folder", FOLDERS, indirect=True)
def test_a_folder_with_a_file_cut_gives_an_error_that_names_a_file_or_a_part(folder):
    form, made = folder
    error, _, whole = check(form, made)
    assert error is None and sum(whole.values()) > 0
    files = _files(made)
    each = max(3, CUTS // len(files))
    for file in files:
        data = file.read_bytes()
        for cut in sorted(
            {0, 1, len(data) - 1, *range(len(data) // each, len(data), max(1, len(data) // each))}
        ):
            file.write_bytes(data[:cut])
            error, marked, rows = check(form, made)
            where = f"{file.name} cut after {cut} of {len(data)} bytes"
            if error is not None:
                assert str(made) in str(error), where
                continue
            kept = {table: count for table, count in rows.items() if table not in ("loss", "attribute")}
            assert all(count <= whole.get(table, 0) for table, count in kept.items()), where
            missing = sum(whole.get(t, 0) - c for t, c in kept.items()) or set(whole) - set(rows) - {
                "loss",
                "attribute",
            }
            # lines of a CSV end anywhere; everything else knows that it is not whole
            assert marked or not missing or file.suffix == ".csv", where
        file.write_bytes(data)


@pytest.mark.parametrize("folder", FOLDERS, indirect=True)
def test_a_folder_in_which_a_file_is_no_file_of_the_format(folder):
    form, made = folder
    for file in _files(made):
        data = file.read_bytes()
        for other in (b"\0" * 64, b"no file of any tool\n" * 9, b"\x1f\x8b\x08\0damaged"):
            file.write_bytes(other)
            error, marked, _ = check(form, made)
            assert marked or (error is None and file.suffix == ".csv"), (file.name, other)
        file.write_bytes(data)
