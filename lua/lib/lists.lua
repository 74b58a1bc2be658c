-- lists: what replies are put together from.

-- Appends the texts of a list to another one, and returns that.
local function append_all(list, texts)
  for _, text in ipairs(texts) do
    list[#list + 1] = text
  end
  return list
end

return { append_all = append_all }
