# SPDX-License-Identifier: Apache-2.0
"""Makes the man pages of nereid and its commands: man_pages.py DIRECTORY NEREID... The words after DIRECTORY run nereid. All text is that of --help, which the
tables of flags and commands make (src/daemon/option_table.c, commands.c). The build calls it (src/daemon/CMakeLists.txt)."""
import pathlib
import re
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def escape(text):
    """Text as roff prints it: a hyphen that a terminal can copy, and no line that is a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def term(line):
    """A line of --help that names a flag or a command: what is typed is bold, what it stands for is not."""
    name, rest = re.fullmatch(r"  (nereid \S+|--\S+) ?(.*)", line).groups()
    return f".TP\n\\fB{escape(name)}\\fR {escape(rest)}".rstrip() + "\n"


def body(lines):
    """The part of --help after its first paragraphs: commands, and groups of flags."""
    text = ""
    for line in filter(None, lines):
        if re.match(r"  (--|nereid )", line):
            text += term(line)
        elif line.startswith(" "):
            text += escape(re.sub(r"nereid (\S+) --help says", r"nereid-\1(1) says", line.strip())) + "\n"
        elif line.endswith(":"):
            text += f'.SS "{escape(line[:-1])}"\n'
        else:
            text += f".PP\n{escape(line)}\n"
    return text


def head(name, version, purpose, usage):
    command, arguments = re.match(r"Usage: (nereid(?: [a-z]+)?) ?(.*)", usage).groups()
    return (f'.\\" Made by scripts/man_pages.py of what --help says.\n.TH {name.upper()} 1 "" "{version}" "User Commands"\n'
            f".SH NAME\n{escape(name)} \\- {escape(purpose)}\n.SH SYNOPSIS\n.B {command}\n{escape(arguments.strip())}\n.SH DESCRIPTION\n")


def page(name, version, purpose, text, others):
    """`text`: what --help prints. Its first paragraphs follow the usage line; then commands or flags begin."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if re.fullmatch(r"\S.*:", line) or line.startswith("All flags of"))
    description = escape("\n".join(lines[1:first]).strip()).replace("\n\n", "\n.PP\n")
    see = ",\n".join(f".BR {escape(other)} (1)" for other in others)
    return f"{head(name, version, purpose, lines[0])}{description}\n.SH OPTIONS\n{body(lines[first:])}.SH SEE ALSO\n{see}\n"


def purpose_of(line):
    """The first sentence of the line, as the NAME section wants it."""
    sentence = line.strip().partition(". ")[0].rstrip(".")
    return sentence[0].lower() + sentence[1:]


def main(directory, *nereid):
    text = output(*nereid, "--help")
    version = output(*nereid, "--version").strip()
    commands = {name: purpose_of(line) for name, line in re.findall(r"^  nereid (\S+).*\n(.*)", text, re.M)}
    names = ["nereid", *(f"nereid-{command}" for command in commands)]
    pages = {"nereid": page("nereid", version, purpose_of(text.splitlines()[1]), text, names[1:])}
    for command, purpose in commands.items():
        name = f"nereid-{command}"
        pages[name] = page(name, version, purpose, output(*nereid, command, "--help"), [other for other in names if other != name])
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in pages.items():
        (directory / f"{name}.1").write_text(content)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: man_pages.py DIRECTORY NEREID...")
    main(*sys.argv[1:])
