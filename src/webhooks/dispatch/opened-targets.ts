import { Injectable } from '@nestjs/common';
import { SealBroken, SecretBox } from '../signing/secret-box.js';
import { openMaterial, type SigningMaterial } from '../signing/signing.js';
import type { DispatchTarget } from '../subscriptions/dispatch-target.js';

/** Opens what signs the deliveries of a subscription once for as long as its record stays the same. */
@Injectable()
export class OpenedTargets {
  private readonly opened = new WeakMap<DispatchTarget, SigningMaterial>();

  constructor(private readonly box: SecretBox) {}

  /** @returns undefined when what is stored cannot be decrypted: nothing may be sent unsigned. */
  open(target: DispatchTarget): SigningMaterial | undefined {
    try {
      const material = this.opened.get(target) ?? openMaterial(this.box, target);
      this.opened.set(target, material);
      return material;
    } catch (error) {
      if (error instanceof SealBroken) {
        return undefined;
      }
      throw error;
    }
  }
}
