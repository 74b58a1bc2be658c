import { Controller, Get, Param, Req, Res } from '@nestjs/common';
import { ApiParam } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { RateLimits, sourceOf } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  Operation,
  PublicAccess,
  QuerySchema,
  sendJson,
} from '../../http/index.js';
import { queryOf, stringifyJson } from '../../wire/index.js';
import { ActionKindListQueryDto, ActionKindsService } from './action-kinds.service.js';
import { KnownKinds } from './known-kinds.js';

const CACHE_CONTROL = 'public, max-age=3600';

/** Both operations are public, and limited by source address. What the client still has is not counted. */
@Controller('v1/action-kinds')
export class ActionKindsController {
  constructor(
    private readonly kinds: ActionKindsService,
    private readonly limits: RateLimits,
  ) {}

  @Get()
  @PublicAccess()
  @Operation('listActionKinds', 'List the action kinds of the protocol')
  @Answers(200, 'ActionKindRegistry', 'A page of the registry')
  @QuerySchema(ActionKindListQueryDto, { risk_class: 'high_risk' })
  list(@Req() request: FastifyRequest, @Res() reply: FastifyReply): void {
    this.answer(request, reply, () => {
      const { rows, ...rest } = this.kinds.list(queryOf(request, ActionKindListQueryDto));
      return { version: this.kinds.version, kinds: rows, ...rest };
    });
  }

  @Get(':kind')
  @PublicAccess()
  @Operation('getActionKind', 'Get an action kind by its exact name')
  @ApiParam({ name: 'kind', schema: { type: 'string', maxLength: 64, examples: ['message.email.send'] } })
  @Answers(200, 'ActionKind', 'The kind')
  get(@Req() request: FastifyRequest, @Param('kind') kind: string, @Res() reply: FastifyReply): void {
    this.answer(request, reply, () => this.kinds.get(kind));
  }

  /** Answers 304 without counting the request if the client has this registry. @throws Refusal LIMIT_EXCEEDED */
  private answer(request: FastifyRequest, reply: FastifyReply, read: () => object): void {
    const isKept = matches(request.headers['if-none-match'], this.kinds.entityTag);
    if (!isKept) {
      this.count(request, reply);
    }
    const text = this.textOf(read, () => isKept && this.count(request, reply));
    reply.header('etag', this.kinds.entityTag).header('cache-control', CACHE_CONTROL);
    if (isKept) {
      void reply.status(304).send();
    } else {
      sendJson(reply, 200, text);
    }
  }

  private textOf(read: () => object, refused: () => unknown): string {
    try {
      return stringifyJson(read());
    } catch (error) {
      refused();
      throw error;
    }
  }

  private count(request: FastifyRequest, reply: FastifyReply): void {
    this.limits.public?.admit(sourceOf(request.ip), reply);
  }
}

/** The kinds that this deployment has declared, which the public registry never shows. */
@Controller('ops/action-kinds')
export class DeclaredKindsController {
  constructor(
    private readonly registry: ActionKindsService,
    private readonly kinds: KnownKinds,
  ) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: 'nothing' })
  @Operation('listDeclaredActionKinds', "List the deployment's own action kinds")
  @Answers(200, 'ActionKindRegistry', 'The declared kinds')
  list(): Answer<'ActionKindRegistry'> {
    const { version } = this.registry;
    return { version, kinds: this.kinds.declared, has_more: false };
  }
}

/** Whether If-None-Match names the entity tag, by the weak comparison of RFC 9110, section 13.1.2. A star names no registry. */
function matches(header: string | undefined, entityTag: string): boolean {
  return header?.split(',').some((tag) => tag.trim().replace(/^W\//, '') === entityTag) === true;
}
