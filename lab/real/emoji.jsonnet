// A table of emoji as configuration: one object for each, with defaults that most of them override.
local emoji = import 'emoji/emoji.json';
local defaults = { weight: 1, tags: [], label: self.name + ' (' + self.group + ')' };
local group(name) = std.strReplace(std.asciiLower(name), ' & ', '-');
local objects = {
  [one.short_name]: defaults {
    name: one.name,
    group: group(one.category),
    tags: std.set([word for word in one.short_names + std.split(one.short_name, '_') if word != '']),
    weight+: one.sort_order % 7,
  }
  for one in emoji
  if one.sort_order % 48 == 0
};
{
  'emoji.yaml': std.manifestYamlDoc(objects),
  'groups.json': {
    [name]: [key for key in std.objectFields(objects) if objects[key].group == name]
    for name in std.set([objects[key].group for key in std.objectFields(objects)])
  },
}
