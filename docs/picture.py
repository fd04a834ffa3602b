"""Draws docs/demo.svg from what `stoker demo` prints: python docs/picture.py"""

import subprocess
import sys
from html import escape
from pathlib import Path

SHOWN = Path(__file__).parent / "demo.svg"
LINE, LETTER, MARGIN = 19, 8.4, 18


def drawn(text: str) -> str:
    lines = text.splitlines()
    width = round(max(map(len, lines)) * LETTER) + 2 * MARGIN
    height = len(lines) * LINE + 2 * MARGIN
    rows = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + LINE * (row + 0.8):.0f}"'
        f"{' class=head' if line[:6] in HEADS else ''}>{escape(line)}</text>".replace(
            "class=head", 'class="head"'
        )
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


HEADS = ("SCORE ", "$ stok", "merlio", "hudson")

if __name__ == "__main__":
    command = [str(Path(sys.executable).with_name("stoker")), "demo"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    SHOWN.write_text(drawn(f"$ stoker demo\n{said}"), encoding="utf-8")
