"""The documents name things that exist."""

import re
from pathlib import Path

import pytest

from migrate.batch.ledger.dead_letters import dead_letter_columns
from migrate.batch.ledger.delta_log import columns as ledger_columns

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_cites_exists(page: Path) -> None:
    cited = re.findall(r"`(tests/[\w/.-]+)`", page.read_text())
    assert [path for path in cited if not (ROOT / path).exists()] == []
    names = re.findall(r"`(test_\w+\.py)`", page.read_text())
    assert [name for name in names if not any((ROOT / "tests").rglob(name))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_section_leads_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\(([\w.-]*\.md)?#([^)]+)\)", page.read_text())
    assert [(name, anchor) for name, anchor in links if anchor not in _anchors(page.parent / (name or page.name))] == []


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["architecture.md", "correctness.md"])
def test_every_module_that_a_page_names_exists(name: str) -> None:
    """By its path in `migrate/` without `.py`, or as a room, which ends with a slash."""
    cited = set(re.findall(r"`([a-z_]+/[\w/]*)`", (ROOT / "docs" / name).read_text()))
    cited -= {"new/", "old/"}  # in a migration's own folder
    assert len(cited) > 20
    places = [ROOT / "migrate", ROOT / "migrate/batch", ROOT, ROOT / "migrate/show"]
    assert [path for path in cited if not any(_is_module(place / path) for place in places)] == []


def _is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_the_picture_of_the_pipeline_names_what_is_in_the_batch_rooms() -> None:
    picture, *others = (_pipeline(ROOT / page) for page in ("README.md", "docs/architecture.md"))
    batch = ROOT / "migrate/batch"
    modules = {path.stem for path in batch.rglob("*.py")} | {path.name for path in batch.iterdir()}
    words = set(re.findall(r"[a-z]+", picture))
    assert others == [picture]
    assert (
        {"source", "snapshot", "plan", "chunk", "ledger", "assemble", "verify", "publish", "cutover"}
        <= words
        <= modules
    )


def _pipeline(page: Path) -> str:
    match = re.search(r"```\n(source/.*?)```", page.read_text(), flags=re.DOTALL)
    assert match is not None
    return match[1]


def test_every_key_of_the_spec_is_documented() -> None:
    from migrate.spec.sections import ChangelogSection, ConversionSection, RunSection, SourceSection, TargetSection
    from migrate.spec.serde_section import NewSerdeSection, OldSerdeSection

    page = (ROOT / "docs/operations.md").read_text()
    new = (ChangelogSection, NewSerdeSection)
    sections = (SourceSection, TargetSection, ConversionSection, RunSection, OldSerdeSection, *new)
    keys = [field.alias or name for section in sections for name, field in section.model_fields.items()]
    assert [key for key in keys if not re.search(rf"[`.]{re.escape(key)}`|\[conversion\.{key}\]| {key}`", page)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    from migrate.cli.main import main

    named = re.findall(r"\bstateferry ([a-z][a-z-]*)((?: (?:SPEC|[\w./-]+\.toml|--[a-z-]+))*)", page.read_text())
    assert [verb for verb, _ in named if verb not in main.commands] == []
    for verb, options in named:
        known = {name for option in main.commands[verb].params for name in option.opts}
        assert set(re.findall(r"--[a-z-]+", options)) <= known, verb


def test_the_spec_of_the_page_on_partitions_loads(tmp_path: Path) -> None:
    from migrate import load_spec

    section = (ROOT / "docs/rows.md").read_text().partition("## Another number of partitions")[2]
    (tmp_path / "migration.toml").write_text(section.partition("```toml\n")[2].partition("```")[0])
    spec = load_spec(tmp_path / "migration.toml")
    assert (spec.target.partitions, spec.of_store("by-hour").target.format) == (12, "kafka-streams.window")


def test_the_specs_and_functions_of_the_page_on_keys_work(tmp_path: Path) -> None:
    """What they make of a key, and that a run of them sorts."""
    from migrate import load_spec
    from migrate.batch.plan.key_order import may_change_keys
    from migrate.spec.conversion import conversion_ref, load_conversion

    section = (ROOT / "docs/rows.md").read_text().partition("## Change keys")[2].partition("\n## ")[0]
    whole, part = re.findall(r"```toml\n(.*?)```", section, flags=re.DOTALL)
    (tmp_path / "keys.py").write_text("\n".join(re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)))
    (tmp_path / "order-key.avsc").write_text(
        '{"type": "record", "name": "OrderKey", "fields": [{"name": "region", "type": "string"}, '
        '{"name": "number", "type": "long"}]}'
    )
    head, _, tail = whole.partition("[conversion]")
    avro = head + part + tail[tail.index("[changelog]") :]
    for text, old, new in ((whole, b"17", bytes(7) + b"\x11"), (avro, b"eu-17", b"\0\0\0\0\x07\x04eu\x22")):
        (tmp_path / "migration.toml").write_text(text)
        conversion = load_conversion(conversion_ref(load_spec(tmp_path / "migration.toml")))
        assert conversion.convert(old, bytes(8) + b"value") == (new, bytes(8) + b"value")
        assert may_change_keys(conversion)


def test_the_spec_of_the_page_on_changelogs_loads(tmp_path: Path) -> None:
    from migrate import load_spec
    from migrate.spec.changelog_way import check_way, way_of
    from migrate.spec.conversion import conversion_ref, load_conversion
    from migrate.spec.sections import ChangelogSection

    block, renaming = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/changelogs.md").read_text(), flags=re.DOTALL)
    for file in ("orders-v1.avsc", "orders-v2.avsc"):
        (tmp_path / file).write_bytes((ROOT / "examples/changelog" / file).read_bytes())
    (tmp_path / "migration.toml").write_text(block)
    spec = load_spec(tmp_path / "migration.toml")
    conversion = load_conversion(conversion_ref(spec))
    check_way(spec, conversion)
    assert way_of(spec, conversion) == "new-topic"
    left_out = set(re.findall(r"^# (\w+) = ", block, flags=re.MULTILINE))
    assert left_out | {"bootstrap"} == set(ChangelogSection.model_fields)
    (tmp_path / "renaming.toml").write_text(f'name = "renaming"\nwork_dir = "work"\n{renaming}')
    spec = load_spec(tmp_path / "renaming.toml")
    assert way_of(spec, load_conversion(conversion_ref(spec))) == "new-topic"


def test_the_page_on_changelogs_lists_every_check_at_the_broker() -> None:
    from tests.cli.check_names import all_checks

    listed = re.findall(r"^\| `(changelog\.[\w-]+)` \|", (ROOT / "docs/changelogs.md").read_text(), flags=re.MULTILINE)
    assert sorted(listed) == sorted(name for name, _ in all_checks() if name.startswith("changelog."))


@pytest.mark.parametrize("table", ["ledger", "dead-letters"])
def test_every_column_of_our_tables_is_documented(table: str) -> None:
    columns = {"ledger": ledger_columns().names, "dead-letters": [each.name for each in dead_letter_columns()]}[table]
    _, _, rest = (ROOT / "docs/operations.md").read_text(encoding="utf-8").partition(f"| column of `{table}/` |")
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])) == sorted(columns)


def test_every_allowance_is_documented() -> None:
    from typing import get_args

    from migrate.spec.allowed import MEANINGS, Allowance

    allowances = get_args(Allowance)
    page = (ROOT / "docs/operations.md").read_text()
    assert set(allowances) == MEANINGS.keys()
    assert [name for name in allowances if f"`{name}`" not in page] == []


def test_every_format_and_every_kind_that_is_refused_is_documented() -> None:
    from formats import FORMATS
    from migrate.systems import SYSTEMS

    page = (ROOT / "docs/formats.md").read_text()
    assert [known.id for known in FORMATS if f"| `{known.id}`" not in page] == []
    families = {family for known in FORMATS for family in (*(known.column_families or ()), *known.metadata_families)}
    assert [family for family in families if f"`{family}`" not in page] == []
    start = page.index("### Stores that are refused")
    assert page.count("\n| ", start, page.index("\n## ", start)) == sum(len(each.unsupported) for each in SYSTEMS) + 1
