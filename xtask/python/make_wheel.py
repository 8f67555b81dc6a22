#!/usr/bin/env python3
"""Packs `sdk/python` and a built `tensorgrid` into a wheel. Python's standard library only.

    make_wheel.py FOLDER BINARY OUT

A wheel is a ZIP archive of the package and of `NAME-VERSION.dist-info`, with a list of digests of all files (PEP 427). It is one
of a platform, because the program is. The same files give the same bytes: all dates are those of 1980.
"""

import base64
import hashlib
import pathlib
import sysconfig
import sys
import tomllib
import zipfile


def record_line(name, data):
    """A file's line in RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def metadata(project, readme):
    """METADATA (core metadata 2.1)."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
    ]
    lines += [f"Requires-Dist: {requirement}" for requirement in project["dependencies"]]
    for extra, requirements in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {requirement} ; extra == "{extra}"' for requirement in requirements]
    return "\n".join(lines) + "\n\n" + readme


def main():
    folder, binary, out = (pathlib.Path(word) for word in sys.argv[1:4])
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag = f"py3-none-{platform}"
    info = f"{name}-{version}.dist-info"
    scripts = "".join(f"{key} = {value}\n" for key, value in project["scripts"].items())
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted((folder / name).glob("*"))
        if path.suffix == ".py" or path.name == "py.typed"
    }
    carried = f"{name}/bin/{'tensorgrid.exe' if platform.startswith('win') else 'tensorgrid'}"
    files[carried] = binary.read_bytes()
    files[f"{info}/METADATA"] = metadata(project, (folder / "README.md").read_text()).encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: cargo xtask wheel\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{scripts}".encode()
    files[f"{info}/RECORD"] = (
        "".join(record_line(path, data) for path, data in files.items()) + f"{info}/RECORD,,\n"
    ).encode()
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path)
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o755 if path == carried else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)
    print(wheel)


main()
