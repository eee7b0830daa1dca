exec lua5.4 - <<'PROGRAM'
local json = require("cjson")
local lpeg = require("lpeg")

local words = {}
for number = 1, 20000 do
    words[number] = string.format("%x", number * 7919) .. string.rep("y", number % 50)
end
local text = json.encode(words)
local again = json.decode(text)
local equal = true
for number, word in ipairs(words) do
    equal = equal and again[number] == word
end
print("the same after JSON", equal, #text)

local digits = lpeg.R("09") ^ 1
local grammar = lpeg.Ct((lpeg.C(digits) / tonumber + 1) ^ 0)
local sum = 0
for _, number in ipairs(grammar:match(table.concat(words, " ", 1, 5000))) do
    sum = (sum + number) % 1000003
end
print("digits", sum)

local makers = {}
for number = 1, 500 do
    makers[number] = coroutine.wrap(function()
        for turn = 1, 100 do
            coroutine.yield(string.rep("z", turn + number))
        end
    end)
end
local length = 0
for _ = 1, 100 do
    for _, maker in ipairs(makers) do
        length = length + #maker()
    end
end
print("from coroutines", length)
PROGRAM
