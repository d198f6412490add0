
# The metadata service is on the host's own link: no proxy can reach it for us.
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY
export no_proxy=169.254.169.254

# request METHOD HEADER PATH: what the metadata service answers within 3 seconds.
request() {
    if command -v curl >/dev/null; then
        curl -q --silent --fail --noproxy '*' --max-time 3 --request "$1" --header "$2" \
            "http://169.254.169.254$3"
    elif command -v wget >/dev/null; then
        if [ "$1" = GET ]; then
            timeout 3 wget -q -O - --header "$2" "http://169.254.169.254$3"
        else
            timeout 3 wget -q -O - --header "$2" --method "$1" "http://169.254.169.254$3"
        fi
    else
        fail 'neither curl nor wget is installed'
    fi
}
