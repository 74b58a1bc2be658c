import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

/** Validates against schemas inside OpenAPI documents. Each is compiled when it is first met: most test files meet only a few. */
export class SchemaBook {
  // The documents hold OpenAPI's own keywords beside those of JSON Schema, which strict mode refuses.
  private readonly ajv = new Ajv2020({ strict: false, allErrors: true, validateSchema: false });
  private readonly validators = new Map<string, ValidateFunction>();

  constructor(documents: Readonly<Record<string, object>>) {
    addFormats.default(this.ajv);
    for (const [name, document] of Object.entries(documents)) {
      this.ajv.addSchema(document, name);
    }
  }

  /** `pointer` is a JSON pointer into the named document, from its `#` on. */
  validatorOf(document: string, pointer: string): ValidateFunction {
    const name = `${document}${pointer}`;
    const known = this.validators.get(name);
    if (known !== undefined) {
      return known;
    }
    // A pointer inside a URI is percent-encoded, and templates of paths hold braces.
    const validate = this.ajv.compile({ $ref: name.replaceAll('{', '%7B').replaceAll('}', '%7D') });
    this.validators.set(name, validate);
    return validate;
  }
}

/** What the validator finds wrong with a value whose numbers are all doubles; empty when it is right. */
export function problemsOf(validate: ValidateFunction, value: unknown): string[] {
  if (validate(value)) {
    return [];
  }
  return (validate.errors ?? []).map(
    ({ instancePath, message, params }) =>
      `${instancePath || 'the body'} ${message} ${JSON.stringify(params)}`,
  );
}
