"""``python -m pmlkit`` is the command ``pmlkit``."""

from pmlkit.cli import main

if __name__ == "__main__":
    main()
