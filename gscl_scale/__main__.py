"""The command as it is started: an interrupt gets its sentence from the first moment on."""

import sys


def main() -> None:
    """Import the command line, which takes a second, and call it."""
    try:
        from gscl_scale.cli import main as command
    except KeyboardInterrupt:
        print("gscl-scale: stopped before it began; run the same command again", file=sys.stderr)
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
