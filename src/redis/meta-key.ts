/** The settings that the deployment was created with: partitions and schema version. Read only at boot. */
export const metaKey = (): string => '{holdfast}meta';
