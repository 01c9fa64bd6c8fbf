from macrid.cli import main

main()
