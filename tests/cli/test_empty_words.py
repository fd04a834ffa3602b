"""Words that say nothing start nothing, whichever command they are given to."""

import click
import pytest

from stoker.cli.main import main, stoker

FREE_TEXT = {"--reason", "--name", "--inject"}
FLAGS = {"--ics", "--csv"}


def places_for_words(command, path=()):
    """Yield every place of every command that takes a text: words up to it, and its name."""
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            yield from places_for_words(command.get_command(ctx, name), (*path, name))
    for each in command.params:
        if each.type.name not in ("text", "path", "file", "directory", "filename"):
            continue
        if isinstance(each, click.Argument):
            yield path, ""
        elif not {*each.opts} & (FREE_TEXT | FLAGS):
            yield path, each.opts[-1]


PLACES = list(places_for_words(stoker))


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    def run(*words):
        monkeypatch.chdir(tmp_path)
        code = main(list(words))
        said = capsys.readouterr()
        assert (code, said.out) == (2, ""), words
        assert len(said.err.splitlines()) == 1
        assert list(tmp_path.iterdir()) == []
        return said.err

    return run


def test_no_command_takes_an_empty_word_for_one_left_out(told):
    assert len(PLACES) > 100
    for path, option in PLACES:
        for nothing in ("", "  "):
            err = told(*path, *filter(None, [option]), nothing)
            assert f"{option or 'a word of the command'} is empty" in err
        if option.startswith("--"):
            assert f"{option} is empty" in told(*path, f"{option}=")


@pytest.mark.parametrize(
    "words",
    [
        ["nightly", "--from-manifest", ""],
        ["nightly", "--only", ""],
        ["undo", ""],
        ["runs", "show", ""],
        ["stop", "--connector", ""],
        ["--config", "", "nightly"],
        ["nightly", "--only=export", ""],
    ],
)
def test_an_unset_variable_starts_nothing(told, words):
    assert "an unset shell variable" in told(*words)


def test_free_text_may_be_empty_and_so_may_the_value_of_a_setting(tmp_path, capsys):
    directory = ["-C", str(tmp_path)]
    assert main([*directory, "tenant", "add", "acme", "--name", ""]) == 0
    assert main([*directory, "stop", "--reason="]) == 0
    main([*directory, "--set", "odoo.url=", "stop"])
    assert "is empty" not in capsys.readouterr().err
