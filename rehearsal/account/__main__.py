"""`python -m rehearsal.account`: run the embedded AWS account until SIGTERM or SIGINT."""

import sys

from rehearsal.account.server import main

sys.exit(main())
