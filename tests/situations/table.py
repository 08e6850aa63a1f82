"""The table of all situations."""

from tests.situations import begun, files, formats_named, functions, paths, segments, specs

SITUATIONS = [
    *paths.SITUATIONS, *specs.SITUATIONS, *formats_named.SITUATIONS, *files.SITUATIONS, *functions.SITUATIONS,
    *segments.SITUATIONS, *begun.SITUATIONS,
]  # fmt: skip
