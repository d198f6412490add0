# Installs [[ name ]], once for each bundle. Made by `monobloc configure --for`.
# In the pillar: `[[ module ]]:roles`, what the minion shall be, and `[[ module ]]:keys`, by role the keys
# that open its secrets.
{%- set roles = salt['pillar.get']('[[ module ]]:roles', []) | join(' ') %}

/etc/[[ name ]]-install:
  file.directory:
    - user: root
    - group: root
    - mode: '0700'

/usr/local/sbin/[[ name ]]-install:
  file.managed:
    - source: salt://[[ module ]]/[[ name ]]-install.sh
    - user: root
    - group: root
    - mode: '0755'

{%- for role in salt['pillar.get']('[[ module ]]:keys', {}) %}

/etc/[[ name ]]-install/{{ role }}.agekey:
  file.managed:
    - contents_pillar: [[ module ]]:keys:{{ role }}
    - user: root
    - group: root
    - mode: '0600'
    - show_changes: false
    - require:
      - file: /etc/[[ name ]]-install
    - require_in:
      - cmd: install-[[ name ]]
{%- endfor %}

install-[[ name ]]:
  cmd.run:
    - name: /usr/local/sbin/[[ name ]]-install --once {{ roles }}
    - unless: /usr/local/sbin/[[ name ]]-install --is-done {{ roles }}
    - require:
      - file: /etc/[[ name ]]-install
      - file: /usr/local/sbin/[[ name ]]-install
