# Installs [[ name ]], once for each bundle. Made by `monobloc configure --for`.

roles = node['[[ module ]]']['roles']
raise "node['[[ module ]]']['roles'] must name what the host shall be" if roles.empty?

directory '/etc/[[ name ]]-install' do
  owner 'root'
  group 'root'
  mode '0700'
end

# By role the keys that open its secrets; put there by a wrapper, from a vault. Attributes would be saved.
(node.run_state['[[ module ]]_keys'] || {}).each do |role, key|
  file "/etc/[[ name ]]-install/#{role}.agekey" do
    content key
    owner 'root'
    group 'root'
    mode '0600'
    sensitive true
  end
end

cookbook_file '/usr/local/sbin/[[ name ]]-install' do
  source '[[ name ]]-install.sh'
  owner 'root'
  group 'root'
  mode '0755'
end

execute 'install [[ name ]]' do
  command ['/usr/local/sbin/[[ name ]]-install', '--once', *roles]
  environment node['[[ module ]]']['environment'].to_h
  not_if { shell_out('/usr/local/sbin/[[ name ]]-install', '--is-done', *roles).exitstatus.zero? }
  timeout 3600
end
