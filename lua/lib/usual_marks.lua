-- usual_marks: the utilizations of budgets that are watched where no subscription asks for others, in order.
-- `npm run generate` reads the text for TypeScript.
local TEXT = '0.8,0.95,1'

return { TEXT = TEXT }
