import json

from stoker.cli.main import main


def test_the_demo_tells_a_true_story_and_leaves_nothing_behind(tmp_path, capsys):
    assert main(["-C", str(tmp_path), "demo", "--json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["state"] == "DONE"
    assert set(answer["tenants"]) == {"hudson", "merlion"}
    for story in answer["tenants"].values():
        assert story["ledger_sound"]
        assert story["unexplained"] == 0
        assert 2 <= len(story["missed"]) <= 3
        assert story["would_prune"]["runs"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_kept_can_be_looked_around_in(tmp_path, capsys):
    kept = tmp_path / "out"
    assert main(["demo", "--keep", str(kept)]) == 0
    told = capsys.readouterr().out
    assert f"stoker -C {kept} schedule audit" in told

    assert main(["-C", str(kept), "schedule", "audit"]) == 0
    assert main(["-C", str(kept), "prune", "--dry-run"]) == 0
    assert "would remove" in capsys.readouterr().out


def test_a_directory_with_something_in_it_is_not_used(tmp_path, capsys):
    (tmp_path / "mine").write_text("precious")

    assert main(["demo", "--keep", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert (tmp_path / "mine").read_text() == "precious"
