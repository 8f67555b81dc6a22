# What Jinja2 makes of templates with transformers' settings (trim_blocks, lstrip_blocks, loop controls, raise_exception, tojson).
import json
from jinja2.sandbox import ImmutableSandboxedEnvironment
import jinja2.ext
def raise_exception(m): raise Exception("refused: "+m)
env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
env.globals["raise_exception"] = raise_exception
# Each uses what published templates use; none is copied from one.
T = {
"header tags": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start|>' + message['role'] + '<|sep|>\n\n'+ message['content'] | trim + '<|turn|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant<|sep|>\n\n' }}{% endif %}",
"namespace": "{%- set ns = namespace(system='', index=0) -%}\n{%- for m in messages if m['role'] == 'system' -%}\n{%- set ns.system = ns.system + m.content + '\n' -%}\n{%- endfor -%}\n{{ bos_token }}{{ ns.system }}\n{%- for m in messages if m.role != 'system' %}\n    {%- set ns.index = ns.index + 1 %}\n[{{ ns.index }}/{{ loop.length }} {{ m.role | upper }}] {{ m.content.strip() }}{% if not loop.last %}{{ eos_token }}{% endif %}\n{%- endfor %}\n",
"first is system": "{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content'] %}\n    {%- set loop_messages = messages[1:] %}\n{%- else %}\n    {%- set loop_messages = messages %}\n{%- endif %}\n{{- bos_token }}\n{%- for message in loop_messages %}\n    {%- if message['role'] == 'user' %}\n        {%- if loop.last and system_message is defined %}\n            {{- '[INST] ' + system_message + '\\n\\n' + message['content'] + '[/INST]' }}\n        {%- else %}\n            {{- '[INST] ' + message['content'] + '[/INST]' }}\n        {%- endif %}\n    {%- elif message['role'] == 'assistant' %}\n        {{- ' ' + message['content'] + eos_token }}\n    {%- else %}\n        {{- raise_exception('Only user and assistant roles are supported') }}\n    {%- endif %}\n{%- endfor %}\n",
"role renamed": "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<turn>' + role + '\n' + message['content'] | trim + '<end>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<turn>model\n'}}{% endif %}",
"macro": "{%- macro say(role, content, last=false) -%}\n<{{ role }}>{{ content }}</{{ role }}>{{ '!' if last else '' }}\n{%- endmacro -%}\n{%- for m in messages -%}\n{{ say(m.role, m.content, last=loop.last) }}\n{% endfor -%}\n",
"thinking": "{%- set ns = namespace(last=-1) %}\n{%- for message in messages[::-1] %}\n    {%- set index = (messages|length - 1) - loop.index0 %}\n    {%- if message.role == 'user' and ns.last < 0 and message.content is string and not (message.content.startswith('<tool>') and message.content.endswith('</tool>')) %}\n        {%- set ns.last = index %}\n    {%- endif %}\n{%- endfor %}\n{%- for message in messages %}\n    {%- set content = message.content %}\n    {%- if message.role == 'assistant' and '</think>' in content %}\n        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n    {%- endif %}\n    {{- '<' ~ message.role ~ (' last' if loop.index0 == ns.last else '') ~ '>' ~ content ~ '\\n' }}\n{%- endfor %}\n",
"undefined": "{% if tools is defined and tools %}T{% elif tools is none %}N{% else %}-{% endif %}{% if not date_string is defined %}{% if strftime_now is defined %}D{% else %}{% set date_string = '26 Jul' %}{% endif %}{% endif %}{{ date_string }}{% for m in messages %}{{ m.name if m.name is defined else m['role'] }}:{{ m.get('tool_calls', 'none') }};{% endfor %}",
"break": "{% for m in messages %}{% if m.role == 'assistant' %}{% break %}{% endif %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ loop.index }}{{ m.content | replace('a', 'b') }}|{% endfor %}",
"json": "{% for m in messages %}{{ m.content | tojson }},{% endfor %}",
"trimmed": "  {% for m in messages %}\n  {# said #}\n    {{ m.role }}\n\t{%- if loop.first %} first{% endif %}\n\n  {% endfor %}\nend\n",
"alternate": "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}",
"items": "{% for m in messages %}{% for k, v in m.items() %}{{ k }}={{ v | length }} {% endfor %}{{ loop.previtem.role if loop.previtem else 'none' }};{% endfor %}",
"selectattr": "{% set users = messages | selectattr('role', 'equalto', 'user') | list %}{{ users | length }} {{ users | map(attribute='content') | join(' / ') }} {{ (messages | first).role }} {{ (messages | last)['role'] }} {{ messages[-1].content[:3] }}{{ 7 // 2 }}{{ 2 ** 3 }}{{ none }}{{ true }}",
"strings": "{% for m in messages %}{{ m.content.title() }}{{ m.content.split()[0] }}{{ m.role.capitalize() }}{{ m.content.find('a') }}{{ ' x '.rstrip() }}{{ '{}'.format(m.role) }}|{% endfor %}",
}
C = [
 [("system"," Be brief. "),("user","Hark! a"),("assistant","<think>\nhm</think>\n\nWho <goes> there?\n"),("user"," I, é 'quoted' \"twice\"")],
 [("user","Hi a"),("assistant","Yes?"),("user","<tool>x</tool>")],
 [("user","one"),("user","two")],
]
out=[]
for name,t in T.items():
    cases=[]
    for c in C:
        msgs=[{"role":r,"content":x} for r,x in c]
        try: got={"text": env.from_string(t).render(messages=msgs,bos_token="<s>",eos_token="</s>",add_generation_prompt=True)}
        except Exception as e:
            got={"refused": str(e)[len("refused: "):]} if str(e).startswith("refused: ") else {"error": str(e)}
        cases.append(got)
    out.append({"name":name,"template":t,"expected":cases})
json.dump({"conversations":C,"templates":out}, open("templates.json", "w"), ensure_ascii=False, indent=1)
for o in out: print(o["name"], [list(x.keys())[0] for x in o["expected"]])
