import { createTheme, type MantineColorsTuple } from '@mantine/core';

const ink: MantineColorsTuple = [
  '#eef3ff',
  '#dbe4fb',
  '#b5c7f3',
  '#8ca8eb',
  '#6b8ee5',
  '#5179e0',
  '#2f5fd0',
  '#2852b6',
  '#22479d',
  '#1a3b86',
];

export const theme = createTheme({
  primaryColor: 'ink',
  primaryShade: 6,
  colors: { ink },
  fontFamily: "'Inter Variable', system-ui, sans-serif",
  fontFamilyMonospace: "'Inter Variable', system-ui, sans-serif",
  defaultRadius: 'sm',
  fontSizes: { xs: '12px', sm: '13px', md: '14px', lg: '16px', xl: '20px' },
  headings: { fontWeight: '600' },
  cursorType: 'pointer',
  respectReducedMotion: true,
});
