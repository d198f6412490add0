
# projects/NUMBER/zones/REGION-LETTER
zone=$(metadata zone) || exit 1
zone=${zone##*/}
print_fault_domain gcp "${zone%-*}" "$zone"
