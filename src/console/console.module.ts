import { Module } from '@nestjs/common';
import { AuthModule } from '../auth/index.js';
import { ExpiryModule } from '../expiry/index.js';
import { HttpModule } from '../http/index.js';
import { ActivityRecorder } from './activity-recorder.js';
import { IdentityProvider } from './identity-provider.js';
import { LiveFeed } from './live-feed.js';
import { LiveFigures } from './live-figures.js';
import { LogInController } from './log-in.controller.js';
import { PageController } from './page.controller.js';
import { ProviderController } from './provider.controller.js';
import { SessionAnswers } from './session-answers.js';
import { SessionController } from './session.controller.js';
import { StreamController } from './stream.controller.js';

/** The operators' console: its page, log-in, and live figures. The page uses the operations that the API has anyway. */
@Module({
  imports: [AuthModule, ExpiryModule, HttpModule],
  controllers: [LogInController, SessionController, ProviderController, StreamController, PageController],
  providers: [ActivityRecorder, IdentityProvider, LiveFeed, LiveFigures, SessionAnswers],
})
export class ConsoleModule {}
