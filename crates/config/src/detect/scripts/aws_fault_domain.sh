
region=$(metadata placement/region) || exit 1
zone=$(metadata placement/availability-zone) || exit 1
print_fault_domain aws "$region" "$zone"
