import sys

from assignadd.cli import main

sys.exit(main())
