
addresses=$(metadata '@path@') || exit 1
# There may be several, the first one stands first.
read -r address <<END
$addresses
END
print_address "$address"
