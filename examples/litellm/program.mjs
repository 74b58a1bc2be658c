// Ann and Bob of team red, and Eve of team blue, each call until they are refused: Ann by her own budget, Bob by what Ann left of the
// team's, Eve by another team's.
import OpenAI from 'openai';

for (const caller of ['red.ann', 'red.bob', 'blue.eve']) {
  const client = new OpenAI({ baseURL: process.env.GATEWAY_URL, apiKey: `sk-${caller}` });
  for (let call = 1; ; call += 1) {
    try {
      await client.chat.completions.create({
        model: 'small-model',
        messages: [{ role: 'user', content: 'What is the answer?' }],
      });
    } catch (error) {
      if (!(error instanceof OpenAI.APIError)) {
        throw error;
      }
      console.log(`${caller}: ${call - 1} calls, then ${error.status} ${error.code}: ${error.message}`);
      break;
    }
  }
}
