// Markdown to HTML, by the package marked: qjs --std marked.js DIRECTORY-OF-INPUTS
import * as std from "qjs:std";
import * as os from "qjs:os";
const inputs = scriptArgs[1];
globalThis.module = { exports: {} };
std.loadScript(inputs + "/marked/lib/marked.umd.js");
const marked = globalThis.marked ?? module.exports;
let length = 0;
for (const kind of ["commands", "configuring-npm", "using-npm"]) {
  const directory = inputs + "/npm/docs/content/" + kind;
  for (const name of os.readdir(directory)[0].filter((name) => name.endsWith(".md")).sort())
    length += marked.parse(std.loadFile(directory + "/" + name)).length;
}
std.out.puts(length + "\n");
