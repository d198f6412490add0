
region=$(metadata compute/location) || exit 1
zone=$(metadata compute/zone) || exit 1
# Regions without zones still keep hosts apart.
if [ -z "$zone" ]; then
    zone=$(metadata compute/platformFaultDomain) || exit 1
fi
print_fault_domain azure "$region" "$zone"
