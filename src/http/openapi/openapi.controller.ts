import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { Controller, Get, Inject, Param, Req, Res, UseGuards } from '@nestjs/common';
import { ApiParam, ApiResponse } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Refusal } from '../../ledger/index.js';
import { PublicRateLimit } from '../access.guard.js';
import { sendJson } from '../errors/error-answer.js';
import { lacksOperatorsPlane } from '../operators-plane.js';
import { OPERATION_ORDER } from './contents.js';
import { OpenApiDocument, Operation } from './document.js';

const ASSETS: Readonly<Record<string, string>> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png',
};

/** The document lists the methods of a path together, whatever their order within a section. */
const START = `const order = ${JSON.stringify(OPERATION_ORDER)};
const rank = (entry) => order.indexOf(entry.getIn(['operation', 'operationId']));
const dark = window.matchMedia('(prefers-color-scheme: dark)');
const applyTheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
applyTheme();
dark.addEventListener('change', applyTheme);
window.ui = SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  validatorUrl: null,
  defaultModelsExpandDepth: -1,
  operationsSorter: (a, b) => rank(a) - rank(b),
});
`;

const PAGE = `<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>Holdfast API</title>
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <link rel="icon" type="image/png" href="/docs/favicon-32x32.png">
  <link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
  <div id="swagger-ui"></div>
  <script src="/docs/swagger-ui-bundle.js"></script>
  <script src="/docs/start.js"></script>
</body>
</html>
`;

/** Nothing on the page comes from elsewhere, and the page may load nothing from elsewhere. */
const POLICY =
  "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";

const TEXT_FILE = { schema: { type: 'string' } } as const;

/** The API's description and its UI. The UI's files come with @nestjs/swagger, so its package is asked where they are. */
@UseGuards(PublicRateLimit)
@Controller()
export class OpenApiController {
  private readonly resolve = createRequire(createRequire(import.meta.url).resolve('@nestjs/swagger'));

  constructor(@Inject(OpenApiDocument) private readonly document: OpenApiDocument) {}

  @Get('openapi.json')
  @Operation('getOpenApiDocument', 'This document')
  @ApiResponse({ status: 200, description: 'OpenAPI 3.1', schema: { type: 'object' } })
  openApi(@Req() request: FastifyRequest, @Res() reply: FastifyReply): void {
    sendJson(reply, 200, this.document.json(!lacksOperatorsPlane(request.raw)));
  }

  @Get('docs')
  @Operation('getDocumentationPage', 'The API in a browser')
  @ApiResponse({
    status: 200,
    description: 'A page',
    content: { 'text/html': { schema: { type: 'string' } } },
  })
  page(@Res() reply: FastifyReply): void {
    void reply
      .header('content-type', 'text/html; charset=utf-8')
      .header('content-security-policy', POLICY)
      .send(PAGE);
  }

  @Get('docs/:file')
  @Operation('getDocumentationFile', 'What the page loads')
  @ApiParam({ name: 'file', schema: { type: 'string', examples: ['start.js'] } })
  @ApiResponse({
    status: 200,
    description: 'A style sheet, a script or an icon',
    content: {
      'text/css': TEXT_FILE,
      'text/javascript': TEXT_FILE,
      'image/png': {},
    },
  })
  async asset(@Param('file') file: string, @Res() reply: FastifyReply): Promise<void> {
    if (file === 'start.js') {
      void reply.header('content-type', 'text/javascript; charset=utf-8').send(START);
      return;
    }
    const type = Object.hasOwn(ASSETS, file) ? ASSETS[file] : undefined;
    if (type === undefined) {
      throw new Refusal('NOT_FOUND', 'there is nothing at this path');
    }
    const content = await readFile(this.resolve.resolve(`swagger-ui-dist/${file}`));
    void reply.header('content-type', type).header('cache-control', 'public, max-age=3600').send(content);
  }
}
