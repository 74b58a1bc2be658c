import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

/**
 * Validates values against schemas inside OpenAPI documents. Each schema is compiled on first use, because
 * most test files need only a few.
 */
export class SchemaBook {
  // The documents use keywords of OpenAPI beside those of JSON Schema, which strict mode rejects.
  private readonly ajv = new Ajv2020({ strict: false, allErrors: true, validateSchema: false });
  private readonly validators = new Map<string, ValidateFunction>();

  constructor(documents: Readonly<Record<string, object>>) {
    addFormats.default(this.ajv);
    for (const [name, document] of Object.entries(documents)) {
      this.ajv.addSchema(document, name);
    }
  }

  /** @param pointer a JSON pointer into the named document, including its `#` */
  validatorOf(document: string, pointer: string): ValidateFunction {
    const name = `${document}${pointer}`;
    const known = this.validators.get(name);
    if (known !== undefined) {
      return known;
    }
    // A pointer inside a URI is percent-encoded, and path templates contain braces.
    const validate = this.ajv.compile({ $ref: name.replaceAll('{', '%7B').replaceAll('}', '%7D') });
    this.validators.set(name, validate);
    return validate;
  }
}

/** The validator's errors for a value whose numbers are all doubles; empty if it is valid. */
export function problemsOf(validate: ValidateFunction, value: unknown): string[] {
  if (validate(value)) {
    return [];
  }
  return (validate.errors ?? []).map(
    ({ instancePath, message, params }) =>
      `${instancePath || 'the body'} ${message} ${JSON.stringify(params)}`,
  );
}
