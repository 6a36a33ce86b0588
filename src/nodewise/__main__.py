"""`python -m nodewise` is the command `nodewise`."""

from nodewise.cli.main import main

main()
