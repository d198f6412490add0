# Installs [[ name ]], once for each bundle. Made by `monobloc configure --for`.
#
# @param roles
#   What the host shall be.
# @param keys
#   The keys that open the secrets of roles: the content of genconf/keys/ROLE.agekey by role.
# @param environment
#   Variables for the install script, such as 'https_proxy=http://proxy.example:3128'.
class [[ module ]] (
  Array[
    Enum[
[% for role in roles %]
      '[[ role.name ]]'[% if not loop.last %],[% endif %]

[% endfor %]
    ],
    1
  ] $roles,
  Hash[Pattern[/\A[A-Za-z0-9_-]+\z/], Sensitive[String[1]]] $keys = {},
  Array[String[1]] $environment = [],
) {
  $arguments = join($roles, ' ')

  file { '/etc/[[ name ]]-install':
    ensure => directory,
    owner  => 'root',
    group  => 'root',
    mode   => '0700',
  }

  $keys.each |String $role, Sensitive[String[1]] $key| {
    file { "/etc/[[ name ]]-install/${role}.agekey":
      owner     => 'root',
      group     => 'root',
      mode      => '0600',
      content   => $key,
      show_diff => false,
      before    => Exec['install [[ name ]]'],
    }
  }

  file { '/usr/local/sbin/[[ name ]]-install':
    owner  => 'root',
    group  => 'root',
    mode   => '0755',
    source => 'puppet:///modules/[[ module ]]/[[ name ]]-install.sh',
  }

  exec { 'install [[ name ]]':
    command     => "/usr/local/sbin/[[ name ]]-install --once ${arguments}",
    unless      => "/usr/local/sbin/[[ name ]]-install --is-done ${arguments}",
    path        => ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'],
    environment => $environment,
    timeout     => 3600,
    require     => File['/usr/local/sbin/[[ name ]]-install', '/etc/[[ name ]]-install'],
  }
}
