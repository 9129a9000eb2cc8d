"""The arrows of the architecture hold; the contracts stand in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

from tests.architecture.source_tree import ROOT


def test_no_import_points_against_the_arrows() -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")
    verdict = subprocess.run(
        [lint_imports, "--no-cache", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr
