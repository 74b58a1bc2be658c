// Any program with the OpenAI SDK: only its baseURL is that of the gateway, and the SDK does not retry what the budget refuses.
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: process.env.GATEWAY_URL, apiKey: 'sk-red.ann' });

try {
  for (let call = 1; ; call += 1) {
    const answer = await client.chat.completions.create({
      model: 'small-model',
      messages: [{ role: 'user', content: 'What is the answer?' }],
    });
    console.log(`Call ${call}: ${answer.choices[0]?.message.content} (${answer.usage?.total_tokens} tokens)`);
  }
} catch (error) {
  if (!(error instanceof OpenAI.RateLimitError)) {
    throw error;
  }
  const retry = error.headers.get('x-should-retry') ?? 'unsaid';
  console.log(`Refused with ${error.status} ${error.code}, worth a retry: ${retry}`);
  console.log(`  ${error.message}`);
}
