# What the host shall be, such as ['[[ roles[0].name ]]'].
default['[[ module ]]']['roles'] = []
# Variables for the install script, such as { 'https_proxy' => 'http://proxy.example:3128' }.
default['[[ module ]]']['environment'] = {}
