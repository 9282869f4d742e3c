"""Lines of the log go to the standard error, or to where the program has said."""

import subprocess
import sys

ONE_LINE = """
import sys
{configured}
from eventlog.core.logs import get_logger
logger = get_logger("eventlog.example")
print("of the program")
logger.warning("of the library", count=3)
"""


def ran(configured: str) -> "subprocess.CompletedProcess[str]":
    code = ONE_LINE.format(configured=configured)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_the_standard_output_belongs_to_the_program() -> None:
    done = ran("")
    assert done.stdout == "of the program\n"
    assert "of the library" in done.stderr
    assert "count" in done.stderr


def test_the_standard_error_is_the_one_of_the_moment() -> None:
    """A program that replaces the standard error has the lines there from then on."""
    done = ran(
        "import io; from eventlog.core.logs import get_logger as g; g('x').warning('before')\n"
        "sys.stderr = io.StringIO()"
    )
    assert "before" in done.stderr
    assert "of the library" not in done.stderr
    assert done.stdout == "of the program\n"


def test_an_exception_comes_with_its_traceback() -> None:
    done = ran(
        "from eventlog.core.logs import get_logger as g\n"
        "try: raise ValueError('no frame')\nexcept ValueError: g('x').exception('failed', count=1)"
    )
    assert "failed count=1" in done.stderr
    assert "ValueError: no frame" in done.stderr


def test_lines_go_where_a_structlog_program_says() -> None:
    done = ran(
        "import structlog; structlog.configure("
        "processors=[structlog.processors.JSONRenderer(sort_keys=True)], "
        "logger_factory=structlog.PrintLoggerFactory(sys.stdout))"
    )
    assert done.stdout == 'of the program\n{"count": 3, "event": "of the library"}\n'
    assert done.stderr == ""


def test_lines_go_to_the_standard_library_by_name() -> None:
    done = ran(
        "import logging, structlog; "
        "logging.basicConfig(format='%(name)s %(levelname)s %(message)s'); "
        "structlog.configure(processors=[structlog.stdlib.filter_by_level, "
        "structlog.processors.JSONRenderer()], wrapper_class=structlog.stdlib.BoundLogger, "
        "logger_factory=structlog.stdlib.LoggerFactory())"
    )
    assert done.stdout == "of the program\n"
    assert done.stderr.startswith('eventlog.example WARNING {"count": 3')


def test_a_line_is_written_when_no_file_can_be_opened() -> None:
    done = ran(
        "import os, resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "from eventlog.core.logs import get_logger\n"
        "try:\n    while True: os.dup(0)\n"
        "except OSError: pass"
    )
    assert done.stderr == "of the library count=3\n"


def test_no_line_imports_structlog_where_nobody_has_configured_it() -> None:
    loaded = "print('structlog' in sys.modules)"
    done = ran(f"from eventlog.core.logs import get_logger; get_logger('x').error('y'); {loaded}")
    assert done.stdout == "False\nof the program\n"


def test_lines_go_to_the_standard_library_where_structlog_is_not_configured() -> None:
    done = ran(
        "import logging, structlog; "
        "logging.basicConfig(format='%(name)s %(levelname)s %(message)s', stream=sys.stdout)"
    )
    assert done.stdout == "of the program\neventlog.example WARNING of the library count=3\n"
    for silent in ("logging.disable()", "logging.getLogger('eventlog').setLevel('ERROR')"):
        assert ran(f"import logging; {silent}").stderr == ""


CONFIGURED = """
import sys
from eventlog.core import logs
def configured():
    import structlog
    structlog.configure(
        processors=[structlog.processors.JSONRenderer(sort_keys=True)],
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
    )
logs.configure(configured)
"""


def test_structlog_is_configured_before_the_first_line() -> None:
    """A program that leaves structlog alone until then has the line as it said."""
    done = ran(f"{CONFIGURED}assert 'structlog' not in sys.modules")
    assert done.stdout == 'of the program\n{"count": 3, "event": "of the library"}\n'


def test_structlog_is_configured_at_once_where_it_is_imported() -> None:
    done = ran(f"import structlog\n{CONFIGURED}assert structlog.is_configured()")
    assert done.stdout == 'of the program\n{"count": 3, "event": "of the library"}\n'
