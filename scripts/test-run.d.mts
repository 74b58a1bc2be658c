export interface Run {
  readonly folder: string;
  close(how: { readonly inOrder: boolean }): Promise<void>;
}

export function openRun(): Run;
