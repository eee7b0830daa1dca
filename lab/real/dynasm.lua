-- Assembles LuaJIT's interpreters with DynASM, which was written for Lua 5.1: lua dynasm.lua DIRECTORY-OF-LUAJIT
local directory = ...
local function signed(number)
  number = number & 0xffffffff
  return number < 0x80000000 and number or number - 0x100000000
end
local function unsigned(number) return number & 0xffffffff end
bit = {
  tobit = signed,
  bnot = function(a) return signed(~a) end,
  band = function(a, b) return signed(a & b) end,
  bor = function(a, b) return signed(a | b) end,
  bxor = function(a, b) return signed(a ~ b) end,
  lshift = function(a, n) return signed(a << (n & 31)) end,
  rshift = function(a, n) return signed(unsigned(a) >> (n & 31)) end,
  arshift = function(a, n) return signed(signed(a) // (1 << (n & 31))) end,
  ror = function(a, n) a, n = unsigned(a), n & 31; return signed(a >> n | a << (32 - n)) end,
  tohex = function(a) return ("%08x"):format(unsigned(a)) end,
}
unpack, loadstring = table.unpack, load
local path = directory .. "/dynasm/dynasm.lua"
arg = { [0] = path }
local dynasm = assert(loadfile(path))
for _, processor in ipairs { "x64", "arm64", "mips64" } do
  for _ = 1, 2 do
    dynasm("-D", "JIT", "-D", "FFI", "-D", "P64", "-o", "/dev/null", directory .. "/src/vm_" .. processor .. ".dasc")
    for name in pairs(package.loaded) do
      if name:find("^dasm_") then package.loaded[name] = nil end
    end
  end
end
