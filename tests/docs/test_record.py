"""Pictures of a terminal: what it shows, in its place, in two palettes, the same for the same output."""

from __future__ import annotations

import re
import sys
import tomllib
from xml.etree import ElementTree

import pytest

from tools import record, scene
from tools.record import FOLDER, PICTURES, run
from tools.terminal_svg import CELL, DARK, HEAD, LIGHT, LINE, PAD, PALETTES, Palette, picture

pytestmark = pytest.mark.docs

SVG = "{http://www.w3.org/2000/svg}"
PYTHON = sys.executable


def printing(tmp_path, text: str) -> str:
    """A command that prints a text as it is."""
    script = tmp_path / "say.py"
    script.write_text(f"import sys\nsys.stdout.write({text!r})\n", "utf-8")
    return f"{PYTHON} {script}"


def shown(tmp_path, text: str, palette: Palette = LIGHT) -> ElementTree.Element:
    """The picture of a terminal after a text, without the line of the command."""
    return ElementTree.fromstring(picture(run(printing(tmp_path, "\x1b[2J\x1b[H" + text)), palette, "say"))


def words(svg: ElementTree.Element) -> list[tuple[float, float, str]]:
    """Column, row and text of all runs."""
    return [
        (
            round((float(one.attrib["x"]) - PAD) / CELL, 2),
            round((float(one.attrib["y"]) - 14 - HEAD) / LINE, 2),
            one.text or "",
        )
        for one in svg.iter(f"{SVG}text")
    ]


def test_text_stands_in_its_column_and_row_with_the_width_of_its_columns(tmp_path):
    svg = shown(tmp_path, "one two  three\r\n    日本 x\r\n")
    assert words(svg) == [(0, 0, "one two"), (9, 0, "three"), (4, 1, "日本 x")]
    widths = [float(one.attrib["textLength"]) for one in svg.iter(f"{SVG}text")]
    assert widths == pytest.approx(
        [7 * CELL, 5 * CELL, 6 * CELL], abs=0.01
    )  # a wide character has two columns


def test_the_terminal_has_eighty_columns_and_knows_it(tmp_path):
    command = f'{PYTHON} -c "import os; print(os.get_terminal_size().columns, os.isatty(1))"'
    assert "80 True" in picture(run(command), LIGHT, command)
    svg = shown(tmp_path, "x" * 90)
    assert [len(text) for _, _, text in words(svg)] == [80, 10]


def test_what_was_written_over_is_not_shown(tmp_path):
    assert words(shown(tmp_path, "run 1: Spark starts\r\x1b[2Kdone")) == [(0, 0, "done")]


def test_colours_are_the_palette_s_own_in_light_and_dark(tmp_path):
    text = "\x1b[32mgreen\x1b[0m \x1b[1mbold\x1b[0m  \x1b[2mfaint\x1b[0m \x1b[38;2;1;2;3mown\x1b[0m"
    for palette in PALETTES:
        by_text = {(one.text or "").strip(): one for one in shown(tmp_path, text, palette).iter(f"{SVG}text")}
        assert by_text["green"].attrib["fill"] == palette.colours["green"]
        assert by_text["bold"].attrib["font-weight"] == "bold"
        assert by_text["bold"].attrib["fill"] == palette.ink
        assert by_text["faint"].attrib["fill"] == palette.faint
        assert by_text["own"].attrib["fill"] == "#010203"  # and its 2 is no faint text
    assert LIGHT.colours["green"] != DARK.colours["green"]


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", PALETTES, ids=lambda palette: palette.name)
def test_every_colour_can_be_read_on_its_paper(palette):
    """The least that WCAG asks for text of this size is 4.5; black on dark is nobody's choice for text."""
    for name, colour in {**palette.colours, "ink": palette.ink, "faint": palette.faint}.items():
        if name != "black":
            assert contrast(colour, palette.paper) >= 4.5, name


def test_boxes_are_lines_that_meet(tmp_path):
    svg = shown(tmp_path, "┌─┐\r\n│x│\r\n└─┘")
    assert words(svg) == [(1, 1, "x")]
    (path,) = svg.iter(f"{SVG}path")
    ends = re.findall(r"L([\d.]+) ([\d.]+)", path.attrib["d"])
    corner = (PAD + CELL / 2, HEAD + LINE)  # where the first row ends and the second begins
    meeting = [end for end in ends if (float(end[0]), float(end[1])) == pytest.approx(corner, abs=0.01)]
    assert len(meeting) == 2


@pytest.mark.parametrize("box, weights", [("┃", {2.0}), ("╭", {1.2}), ("┡", {1.2, 2.0}), ("┼", {1.2})])
def test_a_box_is_as_heavy_as_its_name_says(tmp_path, box, weights):
    svg = shown(tmp_path, box)
    assert words(svg) == []
    assert {float(one.attrib["stroke-width"]) for one in svg.iter(f"{SVG}path")} == weights


def test_a_box_that_is_no_plain_line_stays_text(tmp_path):
    assert words(shown(tmp_path, "╳ ═")) == [(0, 0, "╳ ═")]


def test_marks_of_xml_are_text(tmp_path):
    assert words(shown(tmp_path, "a < b & c")) == [(0, 0, "a < b & c")]


def test_the_same_output_is_the_same_picture(tmp_path):
    asked = {"command": printing(tmp_path, "a \x1b[31mb\x1b[0m ─┐\r\n")}
    first = [file.read_bytes() for file in record.record("one", asked, tmp_path / "a")]
    second = [file.read_bytes() for file in record.record("one", asked, tmp_path / "b")]
    assert first == second
    assert first[0] != first[1]  # light and dark


def test_of_a_command_that_fails_there_is_no_picture(tmp_path):
    with pytest.raises(SystemExit, match="ended with 3"):
        record.record("bad", {"command": f'{PYTHON} -c "raise SystemExit(3)"'}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_picture_of_the_list_is_there_in_light_and_dark_and_no_other():
    listed = tomllib.loads(PICTURES.read_text("utf-8"))
    files = {f"{name}-{palette.name}.svg" for name in listed for palette in PALETTES}
    assert {path.name for path in FOLDER.iterdir()} == files
    for name, asked in listed.items():
        for palette in PALETTES:
            svg = ElementTree.parse(FOLDER / f"{name}-{palette.name}.svg").getroot()
            title = svg.find(f"{SVG}title")
            assert title is not None
            assert title.text == asked["command"]


def test_the_pipeline_of_the_pictures_is_the_one_that_readme_shows():
    assert f"```sql\n{scene.PIPELINE}```" in (record.ROOT / "README.md").read_text("utf-8")


def test_what_must_be_there_first_is_not_shown_and_another_exit_code_is_an_error():
    screen = run("cat note.txt", before="echo hello > note.txt")
    assert [line.rstrip() for line in screen.display[:3]] == ["$ cat note.txt", "hello", ""]
    assert "No such file" in run("cat none.txt", exit_code=1).display[1]
    with pytest.raises(SystemExit, match="ended with 1, not 0"):
        run("cat none.txt")
