
# print_fault_domain PROVIDER REGION ZONE
print_fault_domain() {
    for name in "$2" "$3"; do
        case $name in
            '' | *[!A-Za-z0-9._-]*) fail "this is no name of a region or zone: '$name'" ;;
        esac
    done
    printf '{"fault_domain":{"region":{"name":"%s/%s"},"zone":{"name":"%s/%s"}}}\n' "$1" "$2" "$1" "$3"
}
