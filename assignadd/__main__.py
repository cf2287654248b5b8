import sys

try:
    from assignadd.cli import main
except KeyboardInterrupt:
    sys.exit(130)

sys.exit(main())
