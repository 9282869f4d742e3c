# Short names for the scripts: https://just.systems

# List the recipes
default:
    @just --list

# Show what the memory does; `just demo --ui` continues in a browser
demo *arguments:
    ./scripts/demo {{arguments}}

# Run every check, or pytest with these arguments
test *arguments:
    ./scripts/test {{arguments}}

# Run the tests of some files or directories, without the other checks
fast *paths:
    .venv/bin/python -m pytest -n auto {{paths}}

# Run one example, by its name
example name="chat_agent":
    .venv/bin/python examples/{{name}}.py

# Build the site of the documentation in build/site
docs:
    .venv/bin/mkdocs build --strict -f scripts/site/mkdocs.yml

# Measure: `just bench memory`, or the list of measurements
bench *arguments="--help":
    .venv/bin/python -m bench {{arguments}}

# Run the owners' tests against the adapters
contracts *suites:
    ./scripts/contracts {{suites}}

# Format the code and fix what ruff can fix
format:
    .venv/bin/ruff check --fix
    .venv/bin/ruff format
