// Calls a model until its budget refuses. Only `withBudget` is not what any program with the AI SDK has.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, streamText } from 'ai';
import { BudgetError, withBudget } from '#holdfast-ai-sdk';

const { UPSTREAM_URL, HOLDFAST_URL, HOLDFAST_TENANT, HOLDFAST_API_KEY } =
  /** @type {Record<string, string>} */ (process.env);
const provider = createOpenAICompatible({ name: 'made-up', baseURL: UPSTREAM_URL ?? '', includeUsage: true });

const model = withBudget(provider('small-model'), {
  holdfast: { url: HOLDFAST_URL ?? '', apiKey: HOLDFAST_API_KEY ?? '', timeoutMs: 10_000 },
  subject: { tenant: HOLDFAST_TENANT ?? '' },
  // US dollars for a million tokens.
  price: { input: 0.5, output: 2 },
  maxOutputTokens: 100,
});
const prompt = 'What is the answer?';

let call = 1;
try {
  for (; ; call += 1) {
    const { text, usage } = await generateText({ model, prompt });
    console.log(`Call ${call}: ${text} (${usage.totalTokens} tokens)`);
  }
} catch (error) {
  if (!BudgetError.isInstance(error)) {
    throw error;
  }
  console.log(`Call ${call}: ${error.message}`);
  console.log(
    `  ${error.code} with status ${error.statusCode}, worth a retry: ${error.isRetryable ? 'yes' : 'no'}`,
  );
}

// A stream that is refused yields no part and throws nothing: its error comes to onError.
const { textStream } = streamText({
  model,
  prompt,
  onError: ({ error }) =>
    console.log(`As a stream: ${error instanceof Error ? error.message : String(error)}`),
});
for await (const part of textStream) {
  process.stdout.write(part);
}
