"""Draw docs/demo.svg from what `stoker demo` prints on a terminal: python docs/picture.py"""

import os
import pty
import subprocess
import sys
import termios
from html import escape
from pathlib import Path

SVG_FILE = Path(__file__).parent / "demo.svg"
COLUMNS, LINE_HEIGHT, LETTER_WIDTH, MARGIN = 104, 19, 8.4, 18
HEADINGS = ("SCORE ", "SOURCE", "$ stok", "merlio", "hudson")


def run_on_terminal(command: list[str]) -> str:
    """Return what a command prints on a terminal of COLUMNS columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, COLUMNS))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    parts = []
    with subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        os.close(theirs)
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the command closed the terminal
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return b"".join(parts).decode().replace("\r\n", "\n")


def to_svg(text: str) -> str:
    """Return the text as a picture of a terminal."""
    lines = text.splitlines()
    width = round(max(map(len, lines)) * LETTER_WIDTH) + 2 * MARGIN
    height = len(lines) * LINE_HEIGHT + 2 * MARGIN
    rows = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + LINE_HEIGHT * (row + 0.8):.0f}"'
        f"{HEADING_CLASS if line[:6] in HEADINGS else ''}>{escape(line)}</text>"
        for row, line in enumerate(lines)
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
 viewBox="0 0 {width} {height}" role="img" aria-label="What stoker demo prints">
<style>text {{ font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
 fill: #d7dde5; white-space: pre }} .head {{ fill: #ffb454; font-weight: bold }}</style>
<rect width="100%" height="100%" rx="8" fill="#161b22"/>
{rows}
</svg>
"""


HEADING_CLASS = ' class="head"'

if __name__ == "__main__":
    printed = run_on_terminal([str(Path(sys.executable).with_name("stoker")), "demo"])
    SVG_FILE.write_text(to_svg(f"$ stoker demo\n{printed}"), encoding="utf-8")
