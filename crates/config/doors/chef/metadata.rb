name '[[ module ]]'
description 'Installs [[ name ]]'
version '1.0.0'
chef_version '>= 14.0'
